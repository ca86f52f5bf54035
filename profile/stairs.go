package profile

import "errors"

// ErrGrown says that streams which decode for as long as they are looked at have
// no tokens left for what is asked of them: begin new ones.
var ErrGrown = errors.New("the streams have no tokens left")
