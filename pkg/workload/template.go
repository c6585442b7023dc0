package workload

// PodTemplates returns the pod templates of an object: maps with metadata and
// spec, shared with obj. A Pod is its own template.
func PodTemplates(kind Kind, obj map[string]any) []map[string]any {
	if kind.PodTemplate == nil {
		return nil
	}
	template := obj
	for _, field := range kind.PodTemplate {
		if template = child(template, field); template == nil {
			return nil
		}
	}
	return []map[string]any{template}
}

// child is the map in a field, nil if there is none.
func child(m map[string]any, field string) map[string]any {
	c, _ := m[field].(map[string]any)
	return c
}

// children are the maps in the list of a field.
func children(m map[string]any, field string) []map[string]any {
	list, _ := m[field].([]any)
	maps := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if c, ok := e.(map[string]any); ok {
			maps = append(maps, c)
		}
	}
	return maps
}

// text is the string in a field.
func text(m map[string]any, field string) string {
	s, _ := m[field].(string)
	return s
}
