package field

// prefix is what a command line has before a field's name.
const prefix = "--"

// The fields that libraries name, by what they are called on the command line.
const (
	Catalog             = prefix + "catalog"
	Context             = prefix + "context"
	DecodeReplicas      = prefix + "decode-replicas"
	Fit                 = prefix + "fit"
	Force               = prefix + "force"
	GPU                 = prefix + "gpu"
	KubeNamespace       = prefix + "kube-namespace"
	Kubeconfig          = prefix + "kubeconfig"
	KVDRAM              = prefix + "kv-dram"
	KVNVMe              = prefix + "kv-nvme"
	LoadTime            = prefix + "load-time"
	MaxInFlight         = prefix + "max-in-flight"
	MaxModelLen         = prefix + "max-model-len"
	MaxNumBatchedTokens = prefix + "max-num-batched-tokens"
	MaxNumSeqs          = prefix + "max-num-seqs"
	MemoryFraction      = prefix + "memory-fraction"
	Mode                = prefix + "mode"
	Model               = prefix + "model"
	OSL                 = prefix + "osl"
	OutputDir           = prefix + "output-dir"
	PrefillReplicas     = prefix + "prefill-replicas"
	Prior               = prefix + "prior"
	Profile             = prefix + "profile"
	ResultsConfigmap    = prefix + "results-configmap"
	ResultsPVC          = prefix + "results-pvc"
	Resume              = prefix + "resume"
	Search              = prefix + "search"
	SLAStat             = prefix + "sla-stat"
	TP                  = prefix + "tp"
	Weights             = prefix + "weights"
)
