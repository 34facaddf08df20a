// The node's side of a push: finds what is missing, receives it, and places all files at the end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"
#include "remote/agent/store/incoming_file.h"
#include "remote/agent/store/store.h"
#include "remote/agent/store/store_peer.h"

namespace paddle::agent {

constexpr std::size_t kPushEntriesMax = 1'000'000;

// Free bytes on root's file system; UINT64_MAX if the system does not report them.
std::uint64_t free_bytes(const Root& root);

// Checks, before the bytes of a push arrive, that a node's disk has room for them.
class PushRoom {
 public:
  // `folder` names the root in errors.
  PushRoom(std::string folder, std::uint64_t free) : folder_(std::move(folder)), free_(free) {}

  // Reserves room for one more file. In addition to all files so far, a fifth of their bytes, at
  // most 1 GB, must be free for the job. kResource when they do not fit; nothing has been written
  // for them then.
  Status reserve(std::uint64_t file_bytes);

 private:
  std::string folder_;
  std::uint64_t free_;  // when the push began
  std::uint64_t needed_ = 0;
};

class IncomingPush {
 public:
  explicit IncomingPush(const Root& root) : root_(root), room_(root.path, 0) {}

  // Returns the indices into this manifest of the files to send, one for each distinct content.
  // Refuses unsafe paths, duplicate names, links that leave the root, and files for which the disk
  // has no room.
  Result<wire::agent::ManifestReply> manifest(bool first, const wire::agent::Manifest& manifest);
  // Returns the bits of the AGENT_CHUNKS reply after the last part of a list, and nothing before.
  // kResource when the disk has no room for the file.
  Result<Bytes> chunks(const wire::agent::ChunksRequest& request, ByteSpan part);
  // Call after replying to chunks(): copies known chunks. The next call returns its error.
  void copy_known();
  Status put(const wire::agent::Put& put, ByteSpan tail);
  // Does the work of put() with blobs from another node; blobs that did not arrive are still
  // missing. kData for an invalid blob.
  Result<wire::agent::PullReply> pull(const wire::agent::PullRequest& request, ByteSpan caller_key);
  // Places all files, or none when content is missing; then sweeps the store. keep_only: a folder
  // below root from which files that earlier pushes placed, and this one lacks, are removed first.
  Status place(const std::string& keep_only = "");

 private:
  struct Entry {
    std::string path;
    std::string link;
    ObjectKey key;
    std::uint64_t size = 0;
  };
  struct Folder {  // the folder of the last placed file
    std::string path;
    UniqueFd fd;
  };

  Status add_entry(const wire::agent::PushEntry& file, bool& missing);
  Result<Piece> piece_of(const wire::agent::Put::Blob& blob) const;
  Status put_blob(const wire::agent::Put::Blob& blob, ByteSpan bytes);
  Status open_folder(const std::string& path, Folder& folder);
  Result<bool> place_link(const Entry& entry, const Folder& folder, const std::string& name);
  void reset();

  const Root& root_;
  PushRoom room_;
  std::unique_ptr<Store> store_;
  std::vector<Entry> entries_;
  std::set<std::string> paths_;
  std::set<std::string> missing_;  // names of objects
  Bytes list_;                     // chunk list being received
  std::unique_ptr<ChunkMap> map_;
  std::map<std::uint32_t, std::unique_ptr<IncomingFile>> files_;
  std::uint32_t listed_ = 0;  // file of the last chunk list
  Status late_;
};

// True when the target of a link at `path` is lexically below root.
bool link_stays_inside(const std::string& path, const std::string& target);

}  // namespace paddle::agent
