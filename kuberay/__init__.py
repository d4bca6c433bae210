"""Kubernetes: the image, the manifests, and what writes those of them that carry Ray's pods and the Serve config."""
