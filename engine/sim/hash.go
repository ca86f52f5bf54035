package sim

// Mix hashes two words into one, with the finalizer of SplitMix64 (Steele, Lea
// and Flood, OOPSLA 2014): for either argument fixed it is one-to-one in the
// other, and neighbours share nothing. It hashes their sum: of two small numbers
// one is to be hashed before.
func Mix(a, b uint64) uint64 {
	x := a + b + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// BlockHashes is the hash chain of a prompt: one hash for each full block of
// blockSize tokens (at least 1), which stands for the block and for all that
// precedes it. Prompts share a prefix of the chain where they share a prefix
// of tokens.
func BlockHashes(tokens []uint32, blockSize int) []uint64 {
	n := len(tokens) / blockSize
	if n == 0 {
		return nil
	}
	hashes := make([]uint64, n)
	h := uint64(0x9e3779b97f4a7c15)
	for i := range hashes {
		for _, t := range tokens[i*blockSize : (i+1)*blockSize] {
			h = (h ^ uint64(t)) * 0xd6e8feb86659fd93 // an odd multiplier: each token's step is invertible
			h ^= h >> 32
		}
		hashes[i] = h
	}
	return hashes
}
