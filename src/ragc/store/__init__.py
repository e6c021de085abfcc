"""The call store: replies by the digest of their request, so that no request is sent twice."""
