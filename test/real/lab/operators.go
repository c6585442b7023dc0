//go:build linux

package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// Operator is a program from bin/operators in an image as its authors make it, with the
// name that their manifests have: the nodes have that, and ask no registry.
type Operator struct {
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

// Load packs operators, and has all nodes know their images.
func (l *Lab) Load(operators ...Operator) error {
	for _, o := range operators {
		file := l.Path("operator.tar")
		i := image{name: o.Image, program: o.Binary, path: o.Path, user: o.User, more: base}
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
