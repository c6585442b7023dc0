//go:build linux

package lab

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// The images, which no registry has.
const (
	// Image has the program of test/real/pod.
	Image = "atoll.test/pod:1"
	// ToolsImage has the program of test/real/tools, as tar, too.
	ToolsImage = "atoll.test/tools:1"
	// NamesImage has atoll-dns.
	NamesImage = "atoll.test/atoll-dns:1"
	// CopyImage has atoll-copy.
	CopyImage  = "atoll.test/atoll-copy:1"
	pauseImage = "atoll.test/pause:1"
)

type m = map[string]any

// image has one program.
type image struct {
	// name is that of the image, program that of its file, in its root.
	name, program string
	command       []string
	// links are other names of the program.
	links []string
	// path is where the program is, if not in the root; user runs it, if not root; more
	// is what else there is.
	path, user string
	more       []entry
}

// buildImages compiles the programs and packs them into images that ctr imports.
func buildImages(dir string) ([]string, error) {
	for _, program := range []string{"pod", "tools"} {
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, program), "./test/real/"+program)
		cmd.Dir, cmd.Env = process.Root(), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the program of the pods: %w: %s", err, out)
		}
	}
	for _, program := range []string{"atoll-dns", "atoll-copy"} {
		if err := os.Symlink(process.Binary(program), filepath.Join(dir, program)); err != nil {
			return nil, err
		}
	}
	var files []string
	for i, image := range []image{
		{name: Image, program: "pod", command: []string{"web"}},
		{name: ToolsImage, program: "tools", command: []string{"hold"}, links: []string{"bin/tar"}},
		{name: NamesImage, program: "atoll-dns"},
		{name: CopyImage, program: "atoll-copy"},
		{name: pauseImage, program: "pod", command: []string{"pause"}},
	} {
		file := filepath.Join(dir, fmt.Sprintf("image-%d.tar", i))
		if err := image.write(file, filepath.Join(dir, image.program)); err != nil {
			return nil, fmt.Errorf("writing the image %s: %w", image.name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// write writes an OCI layout with one image of one layer.
func (i image) write(file, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	path := cmp.Or(i.path, i.program)
	entries := append([]entry{{name: path, mode: 0o755, content: content}}, i.more...)
	for _, link := range i.links {
		entries = append(entries, entry{name: link, mode: 0o777, link: "/" + path})
	}
	layer, err := archive(entries)
	if err != nil {
		return err
	}
	config, err := json.Marshal(m{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": m{"Entrypoint": []string{"/" + path}, "Cmd": i.command, "WorkingDir": "/", "User": i.user},
		"rootfs": m{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(m{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor("config.v1+json", config),
		"layers": []m{descriptor("layer.v1.tar", layer)},
	})
	if err != nil {
		return err
	}
	top := descriptor("manifest.v1+json", manifest)
	top["annotations"] = m{"io.containerd.image.name": i.name}
	index, err := json.Marshal(m{"schemaVersion": 2, "manifests": []m{top}})
	if err != nil {
		return err
	}
	all := []entry{{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {name: "index.json", mode: 0o644, content: index}}
	for _, blob := range [][]byte{layer, config, manifest} {
		all = append(all, entry{name: "blobs/sha256/" + digest(blob)[len("sha256:"):], mode: 0o644, content: blob})
	}
	packed, err := archive(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, packed, 0o600)
}

// entry is a file, a symbolic link, or a directory, whose name ends with a slash.
type entry struct {
	name    string
	mode    int64
	content []byte
	link    string
}

func archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), Linkname: e.link}
		if e.link != "" {
			header.Typeflag = tar.TypeSymlink
		} else if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func descriptor(kind string, blob []byte) m {
	return m{"mediaType": "application/vnd.oci.image." + kind, "digest": digest(blob), "size": len(blob)}
}
