"""Tools of kind grpc."""
