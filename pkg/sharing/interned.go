package sharing

import "sync"

// interned remembers values by content. When recent is full it becomes older, and what
// was older is forgotten: whoever holds such a value keeps it.
type interned[T any] struct {
	mu            sync.Mutex
	recent, older map[string]T
}

// intern returns what is remembered under content, or value; at most is how many values
// a generation has.
func (k *interned[T]) intern(content []byte, value T, most int) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.recent[string(content)]; ok {
		return known
	}
	if known, ok := k.older[string(content)]; ok {
		value = known
	}
	if k.recent == nil || len(k.recent) >= most {
		k.older, k.recent = k.recent, map[string]T{}
	}
	k.recent[string(content)] = value
	return value
}

// texts remembers texts, as interned does.
type texts struct {
	mu            sync.Mutex
	recent, older map[string]string
}

func (k *texts) intern(text string, most int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.recent[text]; ok {
		return known
	}
	if known, ok := k.older[text]; ok {
		text = known
	}
	if k.recent == nil || len(k.recent) >= most {
		k.older, k.recent = k.recent, map[string]string{}
	}
	k.recent[text] = text
	return text
}
