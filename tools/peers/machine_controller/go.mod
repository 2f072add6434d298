module ullage/tools/machine-controller

go 1.21

require github.com/kubermatic/machine-controller v1.59.0
