//go:build linux

package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// Image is the image with the program of test/real/pod, which no registry has.
const (
	Image      = "atoll.test/pod:1"
	pauseImage = "atoll.test/pause:1"
)

type m = map[string]any

// buildImages compiles the program and packs it into two images that ctr imports.
func buildImages(dir string) ([]string, error) {
	binary := filepath.Join(dir, "pod")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./test/real/pod")
	cmd.Dir, cmd.Env = process.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the program of the pods: %w: %s", err, out)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files []string
	for name, command := range map[string][]string{Image: {"web"}, pauseImage: {"pause"}} {
		file := filepath.Join(dir, command[0]+".tar")
		if err := writeImage(file, name, program, command); err != nil {
			return nil, fmt.Errorf("writing the image %s: %w", name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// writeImage writes an OCI layout with one image of one layer that holds one program.
func writeImage(file, name string, program []byte, command []string) error {
	layer, err := archive([]entry{{"pod", 0o755, program}})
	if err != nil {
		return err
	}
	config, err := json.Marshal(m{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": m{"Entrypoint": []string{"/pod"}, "Cmd": command, "WorkingDir": "/"},
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
	top["annotations"] = m{"io.containerd.image.name": name}
	index, err := json.Marshal(m{"schemaVersion": 2, "manifests": []m{top}})
	if err != nil {
		return err
	}
	all := []entry{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}
	for _, blob := range [][]byte{layer, config, manifest} {
		all = append(all, entry{"blobs/sha256/" + digest(blob)[len("sha256:"):], 0o644, blob})
	}
	packed, err := archive(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, packed, 0o600)
}

type entry struct {
	name    string
	mode    int64
	content []byte
}

func archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content))}); err != nil {
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
