"""The whole platform on one machine: real servers, real services, one state folder."""
