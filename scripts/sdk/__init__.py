"""`make sdk`: the generated parts of the client SDKs, from the gateway's OpenAPI document."""
