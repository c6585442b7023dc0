package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	differs := flag.String("differs", "test/suites/differs.txt", "the list of what differs by design")
	only := flag.Bool("part", false, "only a part of the suite ran: what is on the list need not have run on stock")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "error: suites [-differs FILE] [-part] NAME STOCK OURS")
		os.Exit(2)
	}
	ok, err := run(*differs, *only, flag.Arg(0), flag.Arg(1), flag.Arg(2), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(differs string, part bool, name, stockDir, oursDir string, out io.Writer) (bool, error) {
	list, err := os.Open(differs)
	if err != nil {
		return false, err
	}
	defer list.Close()
	known, err := readDiffers(list, name)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", differs, err)
	}
	stock, err := load(stockDir)
	if err != nil {
		return false, err
	}
	ours, err := load(oursDir)
	if err != nil {
		return false, err
	}
	if part {
		for test := range known {
			if !passedOn(stock, test) {
				delete(known, test)
			}
		}
	}
	v := judge(stock, ours, known)
	for _, line := range v.byDesign {
		fmt.Fprintln(out, "differs by design:", line)
	}
	for _, line := range v.errors {
		fmt.Fprintln(out, "ERROR:", line)
	}
	if v.stock == 0 {
		return false, fmt.Errorf("%s: nothing passes on a stock cluster: the suite did not run", name)
	}
	fmt.Fprintf(out, "%s: %s\n", name, v)
	return len(v.errors) == 0, nil
}

// load reads all results in a directory.
func load(dir string) (results, error) {
	r := results{}
	for pattern, read := range map[string]func(io.Reader) error{"*.txt": r.readLines, "*.json": r.readGinkgo} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := readFile(file, read); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return r, nil
}

func readFile(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}
