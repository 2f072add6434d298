"""One request as Kubernetes reads it: target, parameters, body, deadline; and the forms that its answer can take."""
