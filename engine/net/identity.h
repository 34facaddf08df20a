// A job's identity, which both sides know beforehand: its tag, its keys and its addresses.
#pragma once

#include <cstdint>

#include "proto/keys.h"

namespace paddle::net {

// The 64-bit tag in every frame: hexadecimal text of up to 16 digits as it is, any other text
// hashed.
std::uint64_t job_tag_of(const std::string& text);

// The keys in key_file. Without a file, those of a fixed public secret if every address is
// loopback, with a warning, else kAuth.
Result<JobKeys> job_keys(const std::string& key_file, std::span<const std::string> addresses);

// "10.0.0.1" or a name -> an IPv4 or IPv6 literal.
Result<std::string> resolve_address(const std::string& host);
// An interface's IPv4 address ("eth0"), for v0.10's --nics; an address passes through.
Result<std::string> interface_address(const std::string& name);

}  // namespace paddle::net
