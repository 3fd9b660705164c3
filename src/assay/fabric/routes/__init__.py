"""Which way traffic goes: tables as a subnet manager wrote them, hashed, D-mod-K, or spread adaptively."""
