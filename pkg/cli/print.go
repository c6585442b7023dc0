package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/scheme"
)

// kinds are ours and those of Kubernetes.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(kubescheme.AddToScheme(s))
	return s
}()

// printFlags print a table, or the objects that it was made from.
type printFlags struct {
	*genericclioptions.PrintFlags
	noHeaders bool
}

func newPrintFlags(cmd *cobra.Command) *printFlags {
	p := &printFlags{PrintFlags: genericclioptions.NewPrintFlags("").WithTypeSetter(kinds)}
	p.JSONYamlPrintFlags.AddFlags(cmd)
	p.NamePrintFlags.AddFlags(cmd)
	p.TemplatePrinterFlags.AddFlags(cmd)
	formats := append([]string{"wide"}, p.AllowedFormats()...)
	cmd.Flags().StringVarP(p.OutputFormat, "output", "o", "", fmt.Sprintf("Output format. One of: (%s).", strings.Join(formats, ", ")))
	p.OutputFlagSpecified = func() bool { return cmd.Flag("output").Changed }
	cmd.Flags().BoolVar(&p.noHeaders, "no-headers", false, "When using the default output format, do not print headers.")
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	return p
}

// forPeople says that a table is wanted, and what is said beside it.
func (p *printFlags) forPeople() bool {
	return (*p.OutputFormat == "" && *p.TemplatePrinterFlags.TemplateArgument == "") || *p.OutputFormat == "wide"
}

// print prints the table, or the objects in a list.
func (p *printFlags) print(o *options, table *metav1.Table, objects ...runtime.Object) error {
	if p.forPeople() {
		w := printers.GetNewTabWriter(o.Out)
		if err := printers.NewTablePrinter(printers.PrintOptions{Wide: *p.OutputFormat == "wide", NoHeaders: p.noHeaders}).PrintObj(table, w); err != nil {
			return err
		}
		return w.Flush()
	}
	list := &corev1.List{}
	for _, obj := range objects {
		if err := setKind(obj); err != nil {
			return err
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: obj})
	}
	if *p.OutputFormat != "name" {
		return p.printObject(o, list)
	}
	for _, obj := range objects {
		if err := p.printObject(o, obj); err != nil {
			return err
		}
	}
	return nil
}

// printObject prints one object in the format that is asked for.
func (p *printFlags) printObject(o *options, obj runtime.Object) error {
	printer, err := p.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(obj, o.Out)
}

// setKind gives an object its kind, which typed clients leave out.
func setKind(obj runtime.Object) error {
	if !obj.GetObjectKind().GroupVersionKind().Empty() {
		return nil
	}
	gvks, _, err := kinds.ObjectKinds(obj)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvks[0])
	return nil
}

// objectsOf are the items of a typed list.
func objectsOf[T any, P interface {
	*T
	runtime.Object
}](items []T) []runtime.Object {
	out := make([]runtime.Object, len(items))
	for i := range items {
		out[i] = P(&items[i])
	}
	return out
}

// changeFlags print what a command that changes something did, and say whether it is to
// be a dry run.
type changeFlags struct {
	*genericclioptions.PrintFlags
	dryRun cmdutil.DryRunStrategy
}

func newChangeFlags(cmd *cobra.Command) *changeFlags {
	c := &changeFlags{PrintFlags: genericclioptions.NewPrintFlags("").WithTypeSetter(kinds)}
	c.AddFlags(cmd)
	cmdutil.AddDryRunFlag(cmd)
	return c
}

// complete reads the flags.
func (c *changeFlags) complete(cmd *cobra.Command) (err error) {
	c.dryRun, err = cmdutil.GetDryRunStrategy(cmd)
	return err
}

// done prints what was done to an object, in one word.
func (c *changeFlags) done(o *options, obj runtime.Object, word string) error {
	if err := setKind(obj); err != nil {
		return err
	}
	flags := *c.PrintFlags
	name := *c.NamePrintFlags
	name.Operation = word
	flags.NamePrintFlags = &name
	cmdutil.PrintFlagsWithDryRunStrategy(&flags, c.dryRun)
	printer, err := flags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(obj, o.Out)
}

// serverDryRun is the value for options of requests.
func (c *changeFlags) serverDryRun() []string {
	if c.dryRun == cmdutil.DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// conditionText is what a condition says, for people.
func conditionText(conditions []metav1.Condition, name string) string {
	c := apimeta.FindStatusCondition(conditions, name)
	if c == nil {
		return name + " is not known yet"
	}
	return fmt.Sprintf("%s is %s (%s): %s", name, c.Status, c.Reason, c.Message)
}
