// A byte stream sealed with TLS 1.3 (RFC 8446, OpenSSL) over another stream. Both ends know the
// pair's key, as an external PSK, and agree on fresh keys by X25519, so a key that leaks later does
// not decrypt recorded traffic. There are no certificates and no resumption.
#pragma once

#include "engine/net/socket.h"
#include "proto/keys.h"

namespace paddle::net {

// The handshake takes place within read_some() and write_some(). Errors are kAuth until the peer
// has proved that it has the key. After write_some() returned 0, the next call must begin with the
// same bytes.
std::unique_ptr<Stream> make_tls_client(std::unique_ptr<Stream> inner, NodeId self, NodeId server,
                                        std::uint64_t job_tag, const Secret& key);
// The client's hello contains its identity. `keys` must outlive the stream.
std::unique_ptr<Stream> make_tls_server(std::unique_ptr<Stream> inner, NodeId self,
                                        std::uint64_t job_tag, const JobKeys& keys);

}  // namespace paddle::net
