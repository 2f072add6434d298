// Manifests prints what KubeVirt's operator would install, one JSON object a line: its kinds, roles, webhooks, aggregated
// API, and the instance types and preferences that come with it. All of it is made by the pinned version itself.
package main

import (
	"encoding/json"
	"log"
	"os"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

const namespace = "kubevirt"

var definitions = []func() (*extv1.CustomResourceDefinition, error){
	components.NewVirtualMachineInstanceCrd,
	components.NewVirtualMachineCrd,
	components.NewPresetCrd,
	components.NewReplicaSetCrd,
	components.NewVirtualMachineInstanceMigrationCrd,
	components.NewKubeVirtCrd,
	components.NewVirtualMachinePoolCrd,
	components.NewVirtualMachineSnapshotCrd,
	components.NewVirtualMachineSnapshotContentCrd,
	components.NewVirtualMachineRestoreCrd,
	components.NewVirtualMachineExportCrd,
	components.NewVirtualMachineInstancetypeCrd,
	components.NewVirtualMachineClusterInstancetypeCrd,
	components.NewVirtualMachinePreferenceCrd,
	components.NewVirtualMachineClusterPreferenceCrd,
	components.NewMigrationPolicyCrd,
	components.NewVirtualMachineCloneCrd,
}

func main() {
	var found []runtime.Object
	for _, make := range definitions {
		definition, err := make()
		must(err)
		definition.SetGroupVersionKind(schema.FromAPIVersionAndKind("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
		found = append(found, definition)
	}
	found = append(found, rbac.GetAllCluster()...)
	found = append(found, rbac.GetAllApiServer(namespace)...)
	found = append(found, rbac.GetAllController(namespace)...)
	found = append(found, rbac.GetAllHandler(namespace)...)
	found = append(found, components.NewKubeVirtPriorityClassCR())
	found = append(found, components.NewVirtAPIMutatingWebhookConfiguration(namespace))
	found = append(found, components.NewVirtAPIValidatingWebhookConfiguration(namespace))
	for _, service := range components.NewVirtAPIAPIServices(namespace) {
		found = append(found, service)
	}
	types, err := components.NewClusterInstancetypes()
	must(err)
	for _, one := range types {
		found = append(found, one)
	}
	preferences, err := components.NewClusterPreferences()
	must(err)
	for _, one := range preferences {
		found = append(found, one)
	}
	out := json.NewEncoder(os.Stdout)
	for _, one := range found {
		must(out.Encode(one))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
