// Expander prints what KubeVirt's own code makes of a template with an instance type and a preference: a JSON case a line in, the
// JSON template a line out. `tests/unit/vms/instance_types/README.md` says what the fields mean.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"kubevirt.io/kubevirt/pkg/instancetype/apply"
	"kubevirt.io/kubevirt/pkg/instancetype/preference/validation"
)

type Case struct {
	Name         string                                  `json:"name"`
	Template     v1.VirtualMachineInstanceTemplateSpec   `json:"template"`
	InstanceType *v1beta1.VirtualMachineInstancetypeSpec `json:"instancetype"`
	Preference   *v1beta1.VirtualMachinePreferenceSpec   `json:"preference"`
}

type Made struct {
	Name     string                                `json:"name"`
	Template v1.VirtualMachineInstanceTemplateSpec `json:"template"`
	Refused  string                                `json:"refused,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given Case
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			log.Fatalf("%s: %v", lines.Text(), err)
		}
		made := Made{Name: given.Name}
		meta := metav1.ObjectMeta{Annotations: given.Template.ObjectMeta.Annotations}
		if found := validation.CheckSpreadCPUTopology(given.InstanceType, given.Preference); found != nil {
			made.Refused = found.Error()
		} else if found := apply.NewVMIApplier().ApplyToVMI(
			field.NewPath("spec", "template", "spec"), given.InstanceType, given.Preference, &given.Template.Spec, &meta,
		); len(found) > 0 {
			made.Refused = found.Error()
		}
		made.Template = given.Template
		made.Template.ObjectMeta = meta
		if err := out.Encode(made); err != nil {
			log.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
