// Renderer prints the launcher pods that KubeVirt's own code makes of instances: a JSON case a line in, a JSON pod a line out.
// `tests/unit/vms/kubevirt_pods/README.md` says what the fields mean.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/defaults"
	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/network/netbinding"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks/validating-webhook/admitters"
	virtconfig "kubevirt.io/kubevirt/pkg/virt-config"
	"kubevirt.io/kubevirt/pkg/virt-controller/services"
)

const (
	namespace    = "default"
	operator     = "kubevirt"
	architecture = "amd64"
)

type Case struct {
	Name        string                        `json:"name"`
	Spec        v1.VirtualMachineInstanceSpec `json:"spec"`
	Config      v1.KubeVirtConfiguration      `json:"config"`
	Annotations map[string]string             `json:"annotations"`
	Labels      map[string]string             `json:"namespaceLabels"`
	Quota       bool                          `json:"quota"`
}

type Pod struct {
	Name      string                       `json:"name"`
	Limits    map[string]string            `json:"limits"`
	Requests  map[string]string            `json:"requests"`
	Each      map[string]map[string]string `json:"each"`
	Overhead  string                       `json:"overhead"`
	Unlimited []string                     `json:"unlimited,omitempty"`
	Invalid   []string                     `json:"invalid,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given Case
		must(json.Unmarshal(lines.Bytes(), &given))
		rendered, err := render(given)
		if err != nil {
			log.Fatalf("%s: %v", given.Name, err)
		}
		must(out.Encode(rendered))
	}
	must(lines.Err())
}

func render(given Case) (*Pod, error) {
	config, err := clusterConfig(given.Config)
	if err != nil {
		return nil, err
	}
	vmi := &v1.VirtualMachineInstance{Spec: given.Spec}
	vmi.Name, vmi.Namespace, vmi.UID, vmi.Annotations = "vm", namespace, "1", given.Annotations
	if err := defaults.SetDefaultVirtualMachineInstance(config, vmi); err != nil {
		return nil, err
	}
	found := &Pod{Name: given.Name}
	for _, cause := range admitters.ValidateVirtualMachineInstanceSpec(field.NewPath("spec"), &vmi.Spec, config) {
		found.Invalid = append(found.Invalid, fmt.Sprintf("%s: %s", cause.Field, cause.Message))
	}
	pod, err := templates(given, config).RenderLaunchManifest(vmi)
	if err != nil {
		return nil, err
	}
	found.Limits = total(pod, func(one corev1.Container) corev1.ResourceList { return one.Resources.Limits })
	found.Requests = total(pod, func(one corev1.Container) corev1.ResourceList { return one.Resources.Requests })
	found.Each = map[string]map[string]string{}
	for _, one := range append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		limits := map[string]string{}
		for name, amount := range one.Resources.Limits {
			limits[string(name)] = amount.String()
		}
		found.Each[one.Name] = limits
		if one.Resources.Limits.Memory().IsZero() || one.Resources.Limits.Cpu().IsZero() {
			found.Unlimited = append(found.Unlimited, one.Name)
		}
	}
	overhead := services.GetMemoryOverhead(vmi, vmi.Spec.Architecture, config.GetConfig().AdditionalGuestMemoryOverheadRatio)
	found.Overhead = fmt.Sprint(overhead.Value())
	return found, nil
}

func clusterConfig(given v1.KubeVirtConfiguration) (*virtconfig.ClusterConfig, error) {
	kubevirt := &v1.KubeVirt{Spec: v1.KubeVirtSpec{Configuration: given}}
	kubevirt.Name, kubevirt.Namespace, kubevirt.ResourceVersion = "kubevirt", operator, "1"
	kubevirt.Status = v1.KubeVirtStatus{Phase: v1.KubeVirtPhaseDeployed, DefaultArchitecture: architecture}
	settings := informer(&v1.KubeVirt{})
	must(settings.GetStore().Add(kubevirt))
	return virtconfig.NewClusterConfigWithCPUArch(informer(&extv1.CustomResourceDefinition{}), settings, operator, architecture)
}

func templates(given Case, config *virtconfig.ClusterConfig) services.TemplateService {
	quotas, namespaces := store(), store()
	if given.Quota {
		hard := corev1.ResourceList{"limits.cpu": resource.MustParse("100"), "limits.memory": resource.MustParse("100Gi")}
		must(quotas.Add(&corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "quota", Namespace: namespace},
			Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		}))
	}
	must(namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: given.Labels}}))
	return services.NewTemplateService("launcher", 240, "/var/run/kubevirt", "/var/run/ephemeral", "/var/run/containers",
		"/var/run/hotplug", "", claims(given.Spec), nil, config, 107, "exporter", quotas, namespaces,
		services.WithSidecarCreator(func(vmi *v1.VirtualMachineInstance, _ *v1.KubeVirtConfiguration) (hooks.HookSidecarList, error) {
			return hooks.UnmarshalHookSidecarList(vmi)
		}),
		services.WithSidecarCreator(netbinding.NetBindingPluginSidecarList),
		services.WithNetBindingPluginMemoryCalculator(netbinding.MemoryCalculator{}),
	)
}

// claims are those that the disks of a spec name, as a cluster would have them.
func claims(spec v1.VirtualMachineInstanceSpec) cache.Store {
	found, mode := store(), corev1.PersistentVolumeFilesystem
	for _, volume := range spec.Volumes {
		name := ""
		if volume.PersistentVolumeClaim != nil {
			name = volume.PersistentVolumeClaim.ClaimName
		} else if volume.DataVolume != nil {
			name = volume.DataVolume.Name
		}
		if name != "" {
			must(found.Add(&corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeMode: &mode},
			}))
		}
	}
	return found
}

// total is what a core ResourceQuota counts: all containers together, or the largest init container where that is more.
func total(pod *corev1.Pod, of func(corev1.Container) corev1.ResourceList) map[string]string {
	sum := corev1.ResourceList{}
	add := func(list corev1.ResourceList) {
		for name, amount := range list {
			have := sum[name]
			have.Add(amount)
			sum[name] = have
		}
	}
	for _, one := range pod.Spec.Containers {
		add(of(one))
	}
	for _, one := range pod.Spec.InitContainers {
		if one.RestartPolicy != nil && *one.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(of(one))
		}
	}
	for _, one := range pod.Spec.InitContainers {
		for name, amount := range of(one) {
			if have := sum[name]; amount.Cmp(have) > 0 {
				sum[name] = amount
			}
		}
	}
	found := map[string]string{}
	for name, amount := range sum {
		if name == corev1.ResourceCPU {
			found[string(name)] = fmt.Sprint(amount.MilliValue())
		} else {
			found[string(name)] = fmt.Sprint(amount.Value())
		}
	}
	return found
}

func informer(of runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, of, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func store() cache.Store {
	return cache.NewStore(cache.MetaNamespaceKeyFunc)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
