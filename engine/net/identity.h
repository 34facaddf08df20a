// A job's identity, which both sides of a connection know beforehand: its tag, its keys and its
// addresses.
#pragma once

#include <cstdint>

#include "proto/keys.h"

namespace paddle::net {

// The 64-bit job tag in every frame: the value of a text of up to 16 hexadecimal digits, the hash
// of any other text.
std::uint64_t job_tag_of(const std::string& text);

// The keys in key_file. Without a file: if every address is loopback, logs a warning and returns
// the keys of a fixed public secret; else kAuth.
Result<JobKeys> job_keys(const std::string& key_file, std::span<const std::string> addresses);

// Returns an IPv4 or IPv6 literal for itself and for "localhost"; kUsage for any other name.
Result<std::string> resolve_address(const std::string& host);
// An interface's IPv4 address ("eth0"), for v0.10's --nics; an address is returned unchanged.
Result<std::string> interface_address(const std::string& name);

}  // namespace paddle::net
