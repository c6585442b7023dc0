//go:build linux

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/distribution/reference"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// Operator is a program from bin/operators in an image as its authors make it.
type Operator struct {
	// Image is the name that their manifests have, without the registry: the nodes have it by the
	// whole name, and ask no registry.
	Image, Binary string
	// Path is where the image has the program, User who runs it there.
	Path, User string
}

// base is what the images have that those of operators are made of: names of users, and a
// place for temporary files. Those have authorities, too, for names outside.
var base = []entry{
	{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n")},
	{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnobody:x:65534:\n")},
	{name: "tmp/", mode: 0o1777},
}

// nameIn is the whole name by which nodes look for the image, if pods have it as text has: with the
// registry that stands before it there, or with that of names that have none.
func (o Operator) nameIn(text string) (string, error) {
	repository, tag, _ := strings.Cut(o.Image, ":")
	named := regexp.MustCompile(`([\w.-]+\.[\w.-]+/)?\b` + regexp.QuoteMeta(repository) + `\b`).FindStringSubmatch(text)
	switch {
	case named == nil:
		return "", fmt.Errorf("nothing names the image %s", repository)
	case named[1] != "":
		return named[1] + o.Image, nil
	}
	name, err := reference.ParseDockerRef(repository + ":" + tag)
	if err != nil {
		return "", fmt.Errorf("the image %s: %w", o.Image, err)
	}
	return name.String(), nil
}

// Load packs operators, and has all nodes know their images by the names that they have in text.
func (l *Lab) Load(text string, operators ...Operator) error {
	for _, o := range operators {
		file := l.Path("operator.tar")
		name, err := o.nameIn(text)
		if err != nil {
			return err
		}
		i := image{name: name, program: o.Binary, path: o.Path, user: o.User, more: base}
		if err := i.write(file, process.Binary(filepath.Join("operators", o.Binary))); err != nil {
			return fmt.Errorf("writing the image %s: %w", o.Image, err)
		}
		for _, p := range l.Physical {
			if err := p.node.load(file); err != nil {
				return fmt.Errorf("loading the image %s on %s: %w", o.Image, p.Name, err)
			}
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// load imports the images of a file.
func (n *node) load(file string) error {
	return run("ctr", "--address", n.file("containerd.sock"), "--namespace", "k8s.io", "images", "import", file)
}
