//go:build linux

package lab

import "testing"

func TestAnImageHasTheRegistryOfTheManifest(t *testing.T) {
	t.Parallel()
	const text = `
  image: "registry.example.com/group/controller:v1"
  args: [--reloader=other.example.com/group/reloader:v1]
  image: group/plain:v1
  base: "third.example.com/group/base"
`
	for image, want := range map[string]string{
		"group/controller:v1": "registry.example.com/group/controller:v1",
		"group/reloader:v1":   "other.example.com/group/reloader:v1",
		"group/base:v2":       "third.example.com/group/base:v2",
		"group/none:v1":       "",
		"group/contr:v1":      "",
	} {
		got, err := Operator{Image: image}.nameIn(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, want %q: %v", image, got, want, err)
		}
	}
	if got, err := (Operator{Image: "group/plain:v1"}).nameIn(text); err != nil || len(got) <= len("/group/plain:v1") || got[len(got)-len("/group/plain:v1"):] != "/group/plain:v1" {
		t.Errorf("one without a registry is %q: %v", got, err)
	}
}
