"""CustomResourceDefinitions, as objects with rules of their own. The controller that serves them is `controllers.crds`.

rules        what is filled in, what is refused, and the resources that follow from one
structural   what an `openAPIV3Schema` may say; do its defaults fit it, do its CEL rules compile?
names        the names that one may use, its conditions
strategy     how one is written, and what a delete leaves on it until its objects are gone
"""
