package plots

import "testing"

type pictureCase struct {
	name string
	make func() (*Picture, error)
}

func six() []pictureCase {
	withTP := func(tp string) Caption { c := caption(); c.Configuration = tp; return c }
	pick := &Mark{KVUsage: 0.43, Context: 3075, Label: "TP:1 n=56"}
	return []pictureCase{
		{"prefill_performance", func() (*Picture, error) {
			c := caption()
			c.Note = "TP:8 was left out: this machine has 4 GPUs"
			return PrefillPerformance(c, prefillCandidates())
		}},
		{"decode_performance", func() (*Picture, error) { return DecodePerformance(caption(), decodeCandidates()) }},
		{"prefill_ttft_interpolation", func() (*Picture, error) {
			return PrefillTTFTInterpolation(withTP("TP:1"), prefillSurface(), ttftCurve())
		}},
		{"prefill_throughput_interpolation", func() (*Picture, error) {
			return PrefillThroughputInterpolation(withTP("TP:1"), prefillSurface(), throughputCurve(), ttftCurve())
		}},
		{"decode_itl_interpolation", func() (*Picture, error) {
			return DecodeITLInterpolation(withTP("TP:1"), decodeSurface(), itlSurface(), pick)
		}},
		{"decode_throughput_interpolation", func() (*Picture, error) {
			return DecodeThroughputInterpolation(withTP("TP:1"), decodeSurface(), throughputSurface(), itlSurface(), pick)
		}},
	}
}

func TestLook(t *testing.T) {
	for _, k := range append(six(), degenerate()...) {
		p, err := k.make()
		if err != nil {
			t.Fatal(k.name, err)
		}
		show(t, k.name, p)
	}
}
