package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archive is as much of tar as kubectl cp uses: "tar cf - FILE" of one file, and
// "tar [options] -xmf - -C DIRECTORY".
func archive(_ context.Context, args []string) error {
	if len(args) == 3 && args[0] == "cf" {
		return pack(args[2])
	}
	if at := slices.Index(args, "-C"); slices.Contains(args, "-xmf") && at >= 0 && at+1 < len(args) {
		return unpack(args[at+1])
	}
	return fmt.Errorf("tar %s is not understood", strings.Join(args, " "))
}

func pack(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w := tar.NewWriter(os.Stdout)
	if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o600, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(w, file); err != nil {
		return err
	}
	return w.Close()
}

func unpack(dir string) error {
	for r := tar.NewReader(os.Stdin); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !fs.ValidPath(header.Name) {
			return fmt.Errorf("%q is no name of a file", header.Name)
		}
		file, err := os.OpenFile(filepath.Join(dir, header.Name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := io.Copy(file, r); err != nil {
			return errors.Join(err, file.Close())
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
}
