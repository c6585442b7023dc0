package volume

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Bounds of what is declared, and of what a physical cluster says of a volume.
const (
	maxClasses        = 64
	maxHandle         = 256
	maxAttributes     = 32
	maxAttribute      = 256
	maxAttributeBytes = 2048
	maxReason         = 512
	maxModes          = 4
	maxImage          = 512
	digestLength      = 64
)

var (
	strategies = []fleetv1alpha1.VolumeStrategy{fleetv1alpha1.VolumesRefuse, fleetv1alpha1.VolumesShared, fleetv1alpha1.VolumesCopy, fleetv1alpha1.VolumesSnapshot}
	formers    = []fleetv1alpha1.FormerVolume{"", fleetv1alpha1.FormerVolumeRetain, fleetv1alpha1.FormerVolumeReclaim}
	modes      = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	policies   = []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}
	kinds      = []corev1.PersistentVolumeMode{"", corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
)

// ValidateClasses checks what an admin declares.
func ValidateClasses(classes []fleetv1alpha1.ClassVolumes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(classes) > maxClasses {
		return field.ErrorList{field.TooMany(path, len(classes), maxClasses)}
	}
	seen := map[string]bool{}
	for i, c := range classes {
		at := path.Index(i)
		errs = append(errs, name(c.StorageClass, "the class whose volumes this is about", at.Child("storageClass"))...)
		if seen[c.StorageClass] {
			errs = append(errs, field.Duplicate(at.Child("storageClass"), bounded(c.StorageClass)))
		}
		seen[c.StorageClass] = true
		switch c.Strategy {
		case fleetv1alpha1.VolumesShared, fleetv1alpha1.VolumesSnapshot:
			errs = append(errs, name(c.Backend, "what holds the volumes: the same name on each physical cluster that reaches it", at.Child("backend"))...)
			errs = append(errs, name(c.Driver, "the CSI driver of the volumes", at.Child("driver"))...)
		case fleetv1alpha1.VolumesRefuse, fleetv1alpha1.VolumesCopy:
			if c.Backend != "" {
				errs = append(errs, field.Forbidden(at.Child("backend"), "only the strategies Shared and Snapshot have one"))
			}
			if c.Driver != "" {
				errs = append(errs, field.Forbidden(at.Child("driver"), "only the strategies Shared and Snapshot have one"))
			}
		default:
			errs = append(errs, field.NotSupported(at.Child("strategy"), c.Strategy, strategies))
		}
		errs = append(errs, validateAttributes(c, at.Child("attributes"))...)
		errs = append(errs, validateCopy(c, at.Child("copy"))...)
		errs = append(errs, validateSnapshots(c, at.Child("snapshot"))...)
	}
	return errs
}

func validateAttributes(c fleetv1alpha1.ClassVolumes, path *field.Path) field.ErrorList {
	if len(c.Attributes) > 0 && c.Strategy != fleetv1alpha1.VolumesShared {
		return field.ErrorList{field.Forbidden(path, "only the strategy Shared has them")}
	}
	if len(c.Attributes) > maxAttributes {
		return field.ErrorList{field.TooMany(path, len(c.Attributes), maxAttributes)}
	}
	var errs field.ErrorList
	for i, key := range c.Attributes {
		switch {
		case key == "" || len(key) > maxAttribute:
			errs = append(errs, field.Invalid(path.Index(i), bounded(key), "keys have up to 256 bytes"))
		case slices.Contains(c.Attributes[:i], key):
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
	}
	return errs
}

func validateCopy(c fleetv1alpha1.ClassVolumes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case c.Strategy != fleetv1alpha1.VolumesCopy && c.Copy == nil:
		return nil
	case c.Strategy != fleetv1alpha1.VolumesCopy:
		return field.ErrorList{field.Forbidden(path, "only the strategy Copy has one")}
	case c.Copy == nil:
		return field.ErrorList{field.Required(path, "the image of atoll-copy, and how much it copies at most")}
	}
	errs = append(errs, validateImage(c.Copy.Image, path.Child("image"))...)
	if bytes, whole := c.Copy.MaxBytes.AsInt64(); !whole || bytes <= 0 {
		errs = append(errs, field.Invalid(path.Child("maxBytes"), c.Copy.MaxBytes.String(), "must be a whole number of bytes, and more than none"))
	}
	return append(errs, validateFormer(c.Copy.FormerVolume, path.Child("formerVolume"))...)
}

func validateSnapshots(c fleetv1alpha1.ClassVolumes, path *field.Path) field.ErrorList {
	switch {
	case c.Strategy != fleetv1alpha1.VolumesSnapshot && c.Snapshot == nil:
		return nil
	case c.Strategy != fleetv1alpha1.VolumesSnapshot:
		return field.ErrorList{field.Forbidden(path, "only the strategy Snapshot has one")}
	case c.Snapshot == nil:
		return field.ErrorList{field.Required(path, "the volume snapshot class, and the image of atoll-copy")}
	}
	errs := name(c.Snapshot.VolumeSnapshotClass, "the class of the snapshots, with deletionPolicy Delete", path.Child("volumeSnapshotClass"))
	errs = append(errs, validateImage(c.Snapshot.Image, path.Child("image"))...)
	return append(errs, validateFormer(c.Snapshot.FormerVolume, path.Child("formerVolume"))...)
}

func validateImage(image string, path *field.Path) field.ErrorList {
	switch {
	case image == "":
		return field.ErrorList{field.Required(path, "the image of atoll-copy")}
	case len(image) > maxImage || strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r > '~' }):
		return field.ErrorList{field.Invalid(path, bounded(image), "must be a reference to an image")}
	}
	return nil
}

func validateFormer(former fleetv1alpha1.FormerVolume, path *field.Path) field.ErrorList {
	if !slices.Contains(formers, former) {
		return field.ErrorList{field.NotSupported(path, former, formers[1:])}
	}
	return nil
}

func name(value, what string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, what)}
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(value) {
		errs = append(errs, field.Invalid(path, bounded(value), problem))
	}
	return errs
}

func bounded(value string) string { return value[:min(len(value), maxHandle)] }

// Validate checks what a syncer says of a volume: it has a bound, and nothing in it is what a
// physical cluster could take for something else.
func Validate(v *placementv1alpha1.CopyVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(v.Name) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path.Child("name"), "", validation.DNS1123SubdomainMaxLength))
	}
	if len(v.Reason) > maxReason {
		errs = append(errs, field.TooLong(path.Child("reason"), "", maxReason))
	}
	if v.Source != nil {
		errs = append(errs, ValidateSource(v.Source, path.Child("source"))...)
	}
	if c := v.Content; c != nil {
		errs = append(errs, name(c.StorageClass, "the class of the claim", path.Child("content", "storageClass"))...)
		if c.Capacity.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Child("content", "capacity"), c.Capacity.String(), "must not be less than nothing"))
		}
		if c.Driver != "" {
			errs = append(errs, name(c.Driver, "the CSI driver", path.Child("content", "driver"))...)
		}
		if c.Snapshot != nil {
			errs = append(errs, ValidateSnapshot(c.Snapshot, path.Child("content", "snapshot"))...)
		}
	}
	if s := v.Snapshot; s != nil {
		errs = append(errs, name(s.Name, "the name of the VolumeSnapshot", path.Child("snapshot", "name"))...)
		if len(s.Message) > maxReason {
			errs = append(errs, field.TooLong(path.Child("snapshot", "message"), "", maxReason))
		}
	}
	if h := v.Helper; h != nil {
		errs = append(errs, name(h.Name, "the name of the pod", path.Child("helper", "name"))...)
		if len(h.UID) > validation.DNS1123LabelMaxLength {
			errs = append(errs, field.TooLong(path.Child("helper", "uid"), "", validation.DNS1123LabelMaxLength))
		}
		if len(h.Message) > maxReason {
			errs = append(errs, field.TooLong(path.Child("helper", "message"), "", maxReason))
		}
	}
	if f := v.Filled; f != nil {
		errs = append(errs, ValidateFilled(f, path.Child("filled"))...)
	}
	return errs
}

// ValidateFilled checks what a syncer says of a copy that has ended, or of a volume that was restored.
func ValidateFilled(f *placementv1alpha1.VolumeFilled, path *field.Path) field.ErrorList {
	errs := name(f.From, "the physical cluster that the data come from", path.Child("from"))
	if f.Snapshot != "" {
		if f.Digest != "" || f.Bytes != 0 || f.Entries != 0 || f.Omitted != 0 {
			errs = append(errs, field.Forbidden(path, "what was restored was not counted"))
		}
		return append(errs, handle(f.Snapshot, "", path.Child("snapshot"))...)
	}
	if len(f.Digest) != digestLength || strings.Trim(f.Digest, "0123456789abcdef") != "" {
		errs = append(errs, field.Invalid(path.Child("digest"), bounded(f.Digest), "must be a SHA-256 in hexadecimal digits"))
	}
	if f.Bytes < 0 || f.Entries < 1 || f.Omitted < 0 {
		errs = append(errs, field.Invalid(path, "", "must have one entry or more, and nothing less than nothing"))
	}
	return errs
}

func handle(value, what string, path *field.Path) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, what)}
	case len(value) > maxHandle:
		return field.ErrorList{field.TooLong(path, "", maxHandle)}
	}
	return nil
}

// ValidateSnapshot checks a snapshot that is to be handed over.
func ValidateSnapshot(s *placementv1alpha1.SnapshotSource, path *field.Path) field.ErrorList {
	errs := name(s.StorageClass, "the class of the claim", path.Child("storageClass"))
	errs = append(errs, name(s.Driver, "the CSI driver", path.Child("driver"))...)
	errs = append(errs, handle(s.Handle, "the handle of the snapshot", path.Child("handle"))...)
	if s.RestoreSize != nil && s.RestoreSize.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("restoreSize"), s.RestoreSize.String(), "must be more than nothing"))
	}
	return errs
}

// ValidateSource checks a volume that is to be handed over.
func ValidateSource(s *placementv1alpha1.VolumeSource, path *field.Path) field.ErrorList {
	errs := name(s.StorageClass, "the class of the claim", path.Child("storageClass"))
	errs = append(errs, name(s.Driver, "the CSI driver", path.Child("driver"))...)
	errs = append(errs, handle(s.Handle, "the handle of the volume", path.Child("handle"))...)
	if len(s.FSType) > validation.DNS1123LabelMaxLength {
		errs = append(errs, field.TooLong(path.Child("fsType"), "", validation.DNS1123LabelMaxLength))
	}
	if s.Capacity.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("capacity"), s.Capacity.String(), "must be more than nothing"))
	}
	if len(s.AccessModes) == 0 || len(s.AccessModes) > maxModes {
		errs = append(errs, field.Invalid(path.Child("accessModes"), len(s.AccessModes), "give one to four"))
	}
	for i, m := range s.AccessModes[:min(len(s.AccessModes), maxModes)] {
		if !slices.Contains(modes, m) {
			errs = append(errs, field.NotSupported(path.Child("accessModes").Index(i), m, modes))
		}
	}
	if !slices.Contains(kinds, s.VolumeMode) {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), s.VolumeMode, kinds))
	}
	if !slices.Contains(policies, s.ReclaimPolicy) {
		errs = append(errs, field.NotSupported(path.Child("reclaimPolicy"), s.ReclaimPolicy, policies))
	}
	size := 0
	for key, value := range s.Attributes {
		size += len(key) + len(value)
		if key == "" || len(key) > maxAttribute || len(value) > maxAttribute {
			errs = append(errs, field.Invalid(path.Child("attributes").Key(bounded(key)), "", "keys and values have up to 256 bytes"))
			break
		}
	}
	if len(s.Attributes) > maxAttributes || size > maxAttributeBytes {
		errs = append(errs, field.TooMany(path.Child("attributes"), len(s.Attributes), maxAttributes))
	}
	return errs
}
