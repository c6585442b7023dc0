package workload

// PodTemplates returns the pod templates of an object: maps with metadata and
// spec, shared with obj. A Pod is its own template.
func PodTemplates(kind Kind, obj map[string]any) []map[string]any {
	if kind.PodTemplate == nil {
		return nil
	}
	var templates []map[string]any
	if template := descend(obj, kind.PodTemplate); template != nil {
		templates = append(templates, template)
	}
	for _, path := range kind.PodTemplates {
		for _, value := range values(obj, path) {
			if template, ok := value.(map[string]any); ok {
				templates = append(templates, template)
			}
		}
	}
	return templates
}

// TemplatePaths are the paths at which an object has its pod templates, if it has any; of
// each, the values that are there.
func TemplatePaths(kind Kind, obj map[string]any, each func(path []string, value any)) {
	if len(kind.PodTemplate) > 0 {
		for _, value := range values(obj, kind.PodTemplate) {
			each(kind.PodTemplate, value)
		}
	}
	for _, path := range kind.PodTemplates {
		for _, value := range values(obj, path) {
			each(path, value)
		}
	}
}

// descend is the map at the end of a path, nil if there is none.
func descend(m map[string]any, path []string) map[string]any {
	for _, field := range path {
		if m = child(m, field); m == nil {
			return nil
		}
	}
	return m
}

// values are what is at the end of a path, in which "*" is each item of a list.
func values(m map[string]any, path []string) []any {
	at := []any{m}
	for _, field := range path {
		var next []any
		for _, value := range at {
			switch v := value.(type) {
			case map[string]any:
				if there, ok := v[field]; ok {
					next = append(next, there)
				}
			case []any:
				if field == "*" {
					next = append(next, v...)
				}
			}
		}
		at = next
	}
	return at
}

// texts are the strings at the end of a path.
func texts(m map[string]any, path []string) []string {
	var out []string
	for _, value := range values(m, path) {
		if s, ok := value.(string); ok && s != "" {
			out = append(out, s)
		}
	}
	return out
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
