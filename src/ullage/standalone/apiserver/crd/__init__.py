"""CustomResourceDefinitions: defaults and rules of the definitions themselves, and the resources that follow from one."""
