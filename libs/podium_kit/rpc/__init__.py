"""A grpc.aio server and client, the same way in every service."""
