from chart import crd_schemas

# Not a skip: a run without CRDs has fewer tests, and its last lines say so (not_run.py).
collect_ignore = [] if crd_schemas.available() else ["test_custom_kinds.py"]
