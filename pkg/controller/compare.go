package controller

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// comparePage is how many objects a page of a comparison has.
	comparePage = 500
	// maxPages bounds what a server can make us read in a comparison: ten million
	// objects are no list of a Kubernetes cluster.
	maxPages = 20000
	// maxDifferences is how many are looked at twice; one would do.
	maxDifferences = 1000
)

// Kinds of differences.
type difference string

const (
	missing   difference = "missing"   // the server has it, the informer does not
	extra     difference = "extra"     // the informer has what the server does not
	different difference = "different" // they have different versions, or objects
)

// differences are by the key of an object.
type differences map[string]held

// held is what an informer has in the place of an object that is different: the zero identity
// for nothing.
type held struct {
	kind difference
	identity
}

func (d differences) count() map[difference]int {
	counts := map[difference]int{}
	for _, h := range d {
		counts[h.kind]++
	}
	return counts
}

func (d differences) example() string {
	for key := range d {
		return key
	}
	return ""
}

// lost are the differences of both that mean that no event will come: in between,
// what the informer holds stayed as it was.
func (d differences) lost(again differences) differences {
	both := differences{}
	for key, h := range d {
		if later, ok := again[key]; ok && later.identity == h.identity {
			both[key] = later
		}
	}
	return both
}

// comparison of an informer with one list of metadata, page by page: what it takes
// grows with the informer and not with the list.
type comparison[T Object] struct {
	*Informer[T]
	// unlisted are the objects of the informer that no page has had.
	unlisted map[string]identity
	// list is the version of the list, began what had been seen before it.
	list  string
	began mark
	found differences
}

// differences implements member.
func (i *Informer[T]) differences(ctx context.Context, only differences) (differences, *regress, error) {
	if i.metadata == nil || !i.HasSynced() {
		return nil, nil, nil
	}
	before := i.seen.mark()
	if i.position.Load() == nil {
		return nil, nil, nil // what it has is of before the server went back
	}
	c := comparison[T]{Informer: i, began: before, unlisted: i.store.identities(), found: differences{}}
	o := metav1.ListOptions{Limit: comparePage}
	for page := 0; ; page++ {
		if page == maxPages {
			return nil, nil, fmt.Errorf("comparing %s: the list has no end", i.name)
		}
		options := o
		scoped := i.source.prepare(ctx, &options)
		list, err := i.metadata(scoped, options)
		if err != nil {
			return nil, nil, fmt.Errorf("comparing %s: %w", i.name, err)
		}
		if page == 0 {
			c.list = list.ResourceVersion
			if went := i.seen.went(before, c.list); went != nil {
				return nil, went, nil
			}
		}
		for n := range list.Items {
			if went := c.item(&list.Items[n], only); went != nil {
				return nil, went, nil
			}
		}
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	for key, has := range c.unlisted {
		// What is newer than the list came after it.
		if !older(c.list, has.version) {
			c.note(key, extra, has, only)
		}
	}
	if i.seen.mark().past != before.past {
		return nil, nil, nil // all is being read anew
	}
	if only != nil {
		return only.lost(c.found), nil, nil
	}
	return c.found, nil, nil
}

// item compares one object. In a list that is as new as what the informer holds,
// an older version of the same object says that the server went back.
func (c *comparison[T]) item(listed *metav1.PartialObjectMetadata, only differences) *regress {
	key := RequestFor(listed).String()
	delete(c.unlisted, key)
	has, ok := c.store.identity(key)
	switch {
	case !ok:
		c.note(key, missing, has, only)
	case has == identityOf(listed), older(c.list, has.version):
	case has.uid == listed.UID && older(listed.ResourceVersion, has.version):
		return &regress{had: has.version, has: listed.ResourceVersion, past: c.began.past}
	default:
		c.note(key, different, has, only)
	}
	return nil
}

func (c *comparison[T]) note(key string, kind difference, has identity, only differences) {
	if _, of := only[key]; only != nil && !of || len(c.found) >= maxDifferences {
		return
	}
	c.found[key] = held{kind, has}
}
