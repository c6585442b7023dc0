package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// maxStay is how far ahead a date may be: the list is a debt, not a home.
const maxStay = 60 * 24 * time.Hour

// entry is a test that may pass the second time only.
type entry struct {
	test    string
	expires time.Time // the last day
	issue   string
	reason  string
}

var (
	testName  = regexp.MustCompile(`^Test\w+$`)
	issueName = regexp.MustCompile(`^(#[0-9]+|https://\S+)$`)
)

// readList reads lines of the form
//
//	TestName 2006-01-02 #issue why it is flaky
//
// and reports those that are wrong or whose date has passed. Lines that begin with #
// are comments.
func readList(r io.Reader, today time.Time) (map[string]entry, error) {
	list := map[string]entry{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parse(line, today)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := list[e.test]; twice {
			return nil, fmt.Errorf("line %d: %s is listed twice", n, e.test)
		}
		list[e.test] = e
	}
	return list, lines.Err()
}

func parse(line string, today time.Time) (entry, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return entry{}, fmt.Errorf("%q is not of the form: TestName 2006-01-02 #issue why it is flaky", line)
	}
	e := entry{test: fields[0], issue: fields[2], reason: strings.Join(fields[3:], " ")}
	if !testName.MatchString(e.test) {
		return entry{}, fmt.Errorf("%q is not the name of a test", e.test)
	}
	if !issueName.MatchString(e.issue) {
		return entry{}, fmt.Errorf("%q is neither #<number> nor the URL of an issue", e.issue)
	}
	var err error
	if e.expires, err = time.Parse(time.DateOnly, fields[1]); err != nil {
		return entry{}, fmt.Errorf("reading the date of %s: %w", e.test, err)
	}
	day := today.UTC().Truncate(24 * time.Hour)
	switch {
	case e.expires.Before(day):
		return entry{}, fmt.Errorf("%s could stay until %s: mend it (%s: %s)", e.test, fields[1], e.issue, e.reason)
	case e.expires.Sub(day) > maxStay:
		return entry{}, fmt.Errorf("%s could stay until %s, which is more than %d days ahead", e.test, fields[1], int(maxStay.Hours()/24))
	}
	return e, nil
}
