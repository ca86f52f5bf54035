package sim

import "math/bits"

// table maps keys to values that are not zero. It is a hash table with open
// addressing and linear probing, at most half full: a cache with tens of
// thousands of blocks is asked for each block of each prompt, and a built-in
// map takes several times as long. The zero table is empty.
type table[V comparable] struct {
	entries []entry[V] // a power of two of them
	shift   int        // what is left of a hash after it indexes entries
	n       int
}

type entry[V comparable] struct {
	key   uint64
	value V // zero = the entry is free
}

// home is where the search for a key begins. Fibonacci hashing spreads keys
// that only count up, as block names of traces do.
func (t *table[V]) home(key uint64) int {
	return int(key * 0x9e3779b97f4a7c15 >> t.shift)
}

// find is the place of a key, or the free one where it would be. The table
// must have entries.
func (t *table[V]) find(key uint64) int {
	var none V
	i := t.home(key)
	for t.entries[i].value != none && t.entries[i].key != key {
		i = (i + 1) & (len(t.entries) - 1)
	}
	return i
}

// get is the value of a key, zero where there is none.
func (t *table[V]) get(key uint64) V {
	if t.n == 0 {
		var none V
		return none
	}
	return t.entries[t.find(key)].value
}

// put sets the value of a key.
func (t *table[V]) put(key uint64, value V) {
	if 2*(t.n+1) > len(t.entries) {
		t.grow()
	}
	var none V
	e := &t.entries[t.find(key)]
	if e.value == none {
		t.n++
	}
	*e = entry[V]{key, value}
}

func (t *table[V]) grow() {
	old := t.entries
	t.entries = make([]entry[V], max(16, 2*len(old)))
	t.shift = 64 - bits.TrailingZeros(uint(len(t.entries)))
	var none V
	for _, e := range old {
		if e.value != none {
			t.entries[t.find(e.key)] = e
		}
	}
}

// remove forgets a key. The entries behind it move up, so that every search
// still ends at the first free one.
func (t *table[V]) remove(key uint64) {
	if t.n == 0 {
		return
	}
	hole, last := t.find(key), len(t.entries)-1
	if t.entries[hole].value == *new(V) {
		return
	}
	t.n--
	for i := (hole + 1) & last; t.entries[i].value != *new(V); i = (i + 1) & last {
		// It may move where its search passes the hole: its home is no closer.
		if (i-t.home(t.entries[i].key))&last >= (i-hole)&last {
			t.entries[hole] = t.entries[i]
			hole = i
		}
	}
	t.entries[hole] = entry[V]{}
}
