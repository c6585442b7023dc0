// Package docs checks what the documentation claims about the code: that the
// tests it names exist, and that the lists it repeats are those that are used.
package docs
