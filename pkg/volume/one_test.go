package volume

import (
	"testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAVolumeIsOneWhereAllThatMountItMay(t *testing.T) {
	claim := func(class string, modes ...any) Claim {
		return ClaimOf(map[string]any{"spec": map[string]any{"storageClassName": class, "accessModes": modes}})
	}
	const once = "not all of its access modes are ReadWriteMany or ReadOnlyMany"
	for _, c := range []struct {
		name  string
		claim Claim
		on    []string
		want  string
	}{
		{"many write", claim("disks", "ReadWriteMany"), []string{"east", "west"}, ""},
		{"many read", claim("disks", "ReadOnlyMany", "ReadWriteMany"), []string{"east", "west"}, ""},
		{"on one", claim("disks", "ReadWriteMany"), []string{"east"}, ""},
		{"one writes", claim("disks", "ReadWriteOnce"), []string{"east", "west"}, once},
		{"also one", claim("disks", "ReadWriteMany", "ReadWriteOncePod"), []string{"east", "west"}, once},
		{"no access mode", claim("disks"), []string{"east", "west"}, once},
		{"no class", claim("", "ReadWriteMany"), []string{"east", "west"}, "the claim names no storage class"},
		{"another backend", claim("disks", "ReadWriteMany"), []string{"east", "far", "west"}, "east and far have volumes of class disks in different backends"},
		{"another driver", claim("disks", "ReadWriteMany"), []string{"east", "west", "odd"}, "east and odd have volumes of class disks in different backends"},
		{"not declared", claim("disks", "ReadWriteMany"), []string{"east", "plain"}, "volumes of class disks do not move to plain"},
	} {
		if got := Apart(c.claim, c.on, two); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	copied := fleetOf(map[string][]fleetv1alpha1.ClassVolumes{"east": copies("2Gi"), "west": copies("2Gi")})
	if got := Apart(claim("files", "ReadWriteMany"), []string{"east", "west"}, copied); got != "volumes of class files are Copy on east, and not Shared" {
		t.Errorf("copied: %q", got)
	}
}

// East made the volume h, and west has it. Which one does north get?
func TestWhatOthersGetIsWhatTheFirstOneGot(t *testing.T) {
	const driver = "disks.example.com"
	fleet := fleetOf(map[string][]fleetv1alpha1.ClassVolumes{"east": shared("san", driver), "west": shared("san", driver), "north": shared("san", driver)})
	given := placementv1alpha1.Target{Volume: &placementv1alpha1.TargetVolume{From: "east", Source: *source(driver, "h")}}
	both := placementv1alpha1.Targets{"east": {}, "west": given}
	const other = " says that it has another volume than the one that others have"
	loose := copyOf("1", "east", source(driver, "h"))
	loose.Status.Volume.Retained = false
	for _, c := range []struct {
		name       string
		targets    placementv1alpha1.Targets
		has        []string
		east, west *placementv1alpha1.Copy
		others     []*placementv1alpha1.Copy
		from, why  string
	}{
		{"of the one that made it", placementv1alpha1.Targets{"east": {}}, []string{"east"}, copyOf("1", "east", source(driver, "h")), nil, nil, "east", ""},
		{"of it rather than of others", both, []string{"east", "west"}, copyOf("1", "east", source(driver, "h")), copyOf("1", "west", source(driver, "h")), nil, "east", ""},
		{"it is silent", both, []string{"east", "west"}, nil, copyOf("1", "west", source(driver, "h")), nil, "west", ""},
		{"it would go with its claim", placementv1alpha1.Targets{"east": {}}, []string{"east"}, loose, nil, nil, "", "its volume is not kept yet"},
		{"nobody has said which", placementv1alpha1.Targets{"east": {}}, []string{"east"}, nil, nil, nil, "", "its volume is not known yet"},
		{"nobody has it", placementv1alpha1.Targets{}, nil, nil, nil, nil, "", "its volume is not known yet"},
		{"it says another one later", both, []string{"east", "west"}, copyOf("1", "east", source(driver, "x")), nil, nil, "", "east" + other},
		{"and the other does not", both, []string{"east", "west"}, copyOf("1", "east", source(driver, "x")), copyOf("1", "west", source(driver, "h")), nil, "west", ""},
		{"who got it names another one, alone", placementv1alpha1.Targets{"west": given}, []string{"west"}, nil, copyOf("1", "west", source(driver, "x")), nil, "", "west" + other},
		{"another claim has it", placementv1alpha1.Targets{"east": {}}, []string{"east"}, copyOf("1", "east", source(driver, "h")), nil, []*placementv1alpha1.Copy{copyOf("2", "west", source(driver, "h"))}, "",
			"another claim has the same volume in the backend san: an admin has to find out whose it is"},
	} {
		v, why := Also(c.targets, c.has, "north", map[string]*placementv1alpha1.Copy{"east": c.east, "west": c.west}, holding(c.others...), fleet)
		from := ""
		if v != nil {
			if from = v.From; v.Source.Handle != "h" || v.Copied {
				t.Errorf("%s: it gets %+v", c.name, v)
			}
		}
		if from != c.from || why != c.why {
			t.Errorf("%s: from %q, %q; want %q, %q", c.name, from, why, c.from, c.why)
		}
	}
}
