package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// GPU is the resource by which pods ask for GPUs.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// stages are kwok's own, which build.sh puts beside the programs.
const stages = "kwok-stages"

// AddNode adds a fake node with GPUs and room for many pods.
func (c *Cluster) AddNode(name string, gpus int64) {
	c.t.Helper()
	room := corev1.ResourceList{
		GPU:                   *resource.NewQuantity(gpus, resource.DecimalSI),
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("2Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
	if _, err := c.Client.CoreV1().Nodes().Create(c.t.Context(), node, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// kwok takes what its file leaves out for 0, and does nothing at a parallelism
// of 0.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: true
  nodeIP: 127.0.0.1
  cidr: 10.0.0.1/24
  podPlayStageParallelism: 4
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  nodeLeaseDurationSeconds: 40
`

// writeKwok writes kwok's options and stages into one file; pods get ready
// podStartup after they are bound.
func (c *Cluster) writeKwok(podStartup time.Duration) string {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.servers, stages, "*.yaml"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("no stages in %s: %v", filepath.Join(c.servers, stages), err)
	}
	documents := []string{kwokOptions}
	for _, file := range files {
		stage, err := readStage(file, podStartup)
		if err != nil {
			c.t.Fatal(err)
		}
		documents = append(documents, stage)
	}
	return c.write("kwok.yaml", []byte(strings.Join(documents, "---\n")))
}

func readStage(file string, podStartup time.Duration) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var stage map[string]any
	if err := yaml.Unmarshal(data, &stage); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if filepath.Base(file) == "pod-ready.yaml" && podStartup > 0 {
		if err := unstructured.SetNestedField(stage, podStartup.Milliseconds(), "spec", "delay", "durationMilliseconds"); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	data, err = yaml.Marshal(stage)
	return string(data), err
}
