package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/edit"
)

// removals are what becomes of what a Manifest carries.
var removals = []string{string(fleetv1alpha1.RemovalDelete), string(fleetv1alpha1.RemovalKeep)}

// manifests are the flags of the command that makes Manifests.
type manifests struct {
	*options
	files           *genericclioptions.FileNameFlags
	removal         string
	adopt           bool
	objectNamespace string
}

func newManifestsCommand(o *options) *cobra.Command {
	m := &manifests{options: o}
	cmd := &cobra.Command{
		Use:   "manifests (-f FILE | -k DIRECTORY) -n NAMESPACE",
		Short: "Make Manifests of objects, to have these on physical clusters as they are",
		Long: templates.LongDesc(`Make Manifests of objects, to have these on physical clusters as they are.

			Prints a Manifest for each object in the files, to be applied in the logical cluster "root"; no server is asked. The
			status of an object is left out, and what a server wrote into its metadata; what it filled in elsewhere, as the
			clusterIP of a Service, stays. A Secret is printed as it is. The name of a Manifest is made of the kind, namespace
			and name of its object, and stays the same. Its labels are those of the object that begin with app.kubernetes.io/.`),
		Example: templates.Examples(`
			# Have an addon on the physical clusters where the namespace "addons" of root is placed
			kubectl atoll manifests -f addon.yaml -n addons | kubectl --context root apply -f -

			# What is on a physical cluster already is taken over, and stays when the Manifest goes
			kubectl --context east get daemonset -n monitoring -o yaml | kubectl atoll manifests -f - -n addons --adopt --removal Keep`),
		Args: cobra.NoArgs,
	}
	filenames, kustomize, recursive := []string{}, "", false
	m.files = &genericclioptions.FileNameFlags{Usage: "with the objects that are to be carried; - is the standard input.", Filenames: &filenames, Kustomize: &kustomize, Recursive: &recursive}
	m.files.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&m.adopt, "adopt", false, "Take over objects that are there already and belong to no control plane.")
	cmd.Flags().StringVar(&m.removal, "removal", "", "What becomes of an object where its Manifest is deleted, or moves away from: Delete or Keep. By default the server decides by its kind.")
	cmd.Flags().StringVar(&m.objectNamespace, "object-namespace", "", "The namespace, on physical clusters, of objects that name none. "+
		"Only for kinds that kustomize knows to be in namespaces: write it into others, as custom resources.")
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("removal", cobra.FixedCompletions(removals, cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(*cobra.Command, []string) error { return m.run() }
	return cmd
}

func (m *manifests) run() error {
	if err := m.validate(); err != nil {
		return err
	}
	read, err := m.read()
	if err != nil {
		return err
	}
	made, err := edit.Manifests{
		Namespace: *m.flags.Namespace, Adopt: m.adopt, Removal: fleetv1alpha1.ManifestRemoval(m.removal),
		ObjectNamespace: m.objectNamespace, Namespaced: namespaced,
	}.Of(read)
	if err != nil {
		return err
	}
	printer := &printers.YAMLPrinter{}
	for _, manifest := range made {
		if err := printer.PrintObj(manifest, m.Out); err != nil {
			return err
		}
	}
	return nil
}

func (m *manifests) validate() error {
	files := m.files.ToOptions()
	if err := files.RequireFilenameOrKustomize(); err != nil {
		return errors.New("name the objects: -f FILE, or -k DIRECTORY")
	}
	if len(files.Filenames) > 0 && files.Kustomize != "" {
		return errors.New("name either -f FILE or -k DIRECTORY")
	}
	// That of the context is not taken: what is committed must not depend on a kubeconfig.
	if *m.flags.Namespace == "" {
		return errors.New("name the namespace of root that the Manifests are in: -n NAMESPACE; its placement is theirs")
	}
	if m.removal != "" && !slices.Contains(removals, m.removal) {
		return fmt.Errorf("--removal is Delete or Keep, not %q", m.removal)
	}
	for flag, namespace := range map[string]string{"--namespace": *m.flags.Namespace, "--object-namespace": m.objectNamespace} {
		if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
			return fmt.Errorf("%s: %q is no name of a namespace: %s", flag, namespace, problems[0])
		}
	}
	return nil
}

// read reads the files as kubectl does, without a server.
func (m *manifests) read() ([]edit.ReadObject, error) {
	files := m.files.ToOptions()
	builder := resource.NewLocalBuilder().Unstructured().Schema(kindNeeded{}).ContinueOnError()
	if slices.Contains(files.Filenames, "-") {
		files.Filenames = slices.DeleteFunc(slices.Clone(files.Filenames), func(name string) bool { return name == "-" })
		builder.Stream(m.In, "standard input")
	}
	var out []edit.ReadObject
	err := builder.FilenameParam(false, &files).Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		object, ok := info.Object.(runtime.Unstructured)
		if !ok {
			return fmt.Errorf("%s: a %T is no object of Kubernetes", info.Source, info.Object)
		}
		out = append(out, edit.ReadObject{Object: object, Source: info.Source})
		return nil
	})
	return out, readable(err)
}

// ofYAML begins what a parser of YAML says. Where it names a line first, that is of the syntax, and repeats
// nothing of what is read.
var ofYAML = regexp.MustCompile(`: yaml: (line \d+: )?`)

// ignoring advises to validate nothing, for which there is no flag: kindNeeded always does.
const ignoring = "; if you choose to ignore these errors, turn validation off with --validate=false"

// readable is an error of reading, without what it may repeat of a Secret: to YAML, a password that is not
// quoted may be an alias of an anchor that there is not.
func readable(err error) error {
	var several utilerrors.Aggregate
	if !errors.As(err, &several) {
		several = utilerrors.NewAggregate([]error{err})
	}
	if several == nil {
		return nil
	}
	var out []error
	for _, err := range utilerrors.Flatten(several).Errors() {
		message := strings.TrimSuffix(err.Error(), ignoring)
		if at := ofYAML.FindStringSubmatchIndex(message); at != nil && at[2] < 0 {
			message = message[:at[1]] + "a value or key, which is not repeated here, is none of YAML; quote what begins with *, &, ! or {"
		}
		out = append(out, errors.New(message))
	}
	return joined(out)
}

// kindNeeded refuses what has no kind, and repeats nothing of it: the decoder, which comes next, would
// have all of it in its error, and it may be a Secret.
type kindNeeded struct{}

func (kindNeeded) ValidateBytes(data []byte) error {
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return errors.New("there is something that is no object; each object begins with apiVersion and kind")
	}
	if kind, _ := content["kind"].(string); kind != "" {
		return nil
	}
	name := "an object without a name"
	if metadata, _ := content["metadata"].(map[string]any); metadata != nil {
		if s, _ := metadata["name"].(string); s != "" {
			name = s
		}
	}
	return fmt.Errorf("%s has no kind; each object begins with apiVersion and kind", name)
}

// namespaced says that a kind is known to be in namespaces, in whichever version. What kustomize knows is
// older than some of the versions.
func namespaced(gvk schema.GroupVersionKind) bool {
	for _, gv := range append(kinds.VersionsForGroupKind(gvk.GroupKind()), gvk.GroupVersion()) {
		if in, known := openapi.IsNamespaceScoped(kyaml.TypeMeta{APIVersion: gv.String(), Kind: gvk.Kind}); known {
			return in
		}
	}
	return false
}
