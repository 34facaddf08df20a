// Files below root: compare with a manifest, receive, list, send, remove.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/base/sha256.h"
#include "proto/agent.pb.h"
#include "remote/agent/root.h"

namespace paddle::agent {

// Indices of the files that differ from what is here. A file with the right content gets its mode.
Result<wire::agent::ManifestReply> compare(const Root& root, const wire::agent::Manifest& manifest);

// Regular files below folder with their hashes; paths relative to it. None when it does not exist.
Status list_files(const Root& root, const std::string& folder,
                  const std::function<Status(const wire::agent::FileEntry&)>& visit);

// Sends the file as it is long now, in chunks; an empty file is one empty chunk.
Status send_file(const Root& root, const std::string& path,
                 const std::function<Status(std::uint64_t size, ByteSpan chunk, bool more)>& send);

// A file or a whole folder; fine when there is none.
Status remove_path(const Root& root, const std::string& path);

// One file arriving in chunks. It takes its name only when whole and its SHA-256 is right.
class Incoming {
 public:
  explicit Incoming(const Root& root) : root_(root) {}
  ~Incoming() { abandon(); }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  // After an error the rest of this file's chunks is ignored, until one that begins another file.
  Status add(const wire::agent::Put& put, ByteSpan chunk);

 private:
  Status begin(const wire::agent::FileEntry& file);
  Status complete();
  void abandon();

  const Root& root_;
  std::optional<wire::agent::FileEntry> file_;
  std::optional<Sha256> sha_;
  Place place_;
  UniqueFd fd_;
  std::string temporary_;
  std::uint64_t received_ = 0;
};

}  // namespace paddle::agent
