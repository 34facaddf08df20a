// Fixture that writes small savepoints to a folder in memory, and reads what is whole there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/snapshot/folder_savepoint_store.h"
#include "tests/support/files/memory_files.h"

namespace paddle::snapshot {

class SavepointFixture : public ::testing::Test {
 protected:
  static constexpr const char* kFolder = "/job/savepoints";
  static constexpr std::uint64_t kFingerprint = 2026;

  using Store = std::unique_ptr<FolderSavepointStore>;

  static Store open(FileSystem& files, std::uint64_t fingerprint = kFingerprint,
                    SavepointThread* thread = nullptr, const std::string& folder = kFolder) {
    auto opened = FolderSavepointStore::open(folder, fingerprint, thread, files);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? *std::move(opened) : nullptr;
  }

  // Records of the savepoint of `number`, no two alike; `version` is that of the training that
  // wrote it.
  static std::vector<std::string> records_of(std::uint64_t number, int version) {
    std::vector<std::string> records;
    for (const std::size_t size : {0, 5, 280}) {
      std::string text = fmt::format("{}.{}.{}:", number, version, size);
      Rng rng(hash_combine(number, size + static_cast<std::size_t>(version)));
      while (text.size() < size) text += static_cast<char>(rng.next());
      records.push_back(size == 0 ? "" : text);
    }
    return records;
  }

  // The same as read_text() of a full savepoint alone.
  static std::string text_of(std::uint64_t number, int version = 0) {
    std::string text;
    std::uint32_t kind = 0;
    for (const std::string& record : records_of(number, version)) {
      text += line(kind++, as_bytes(record));
    }
    return text;
  }

  static void write(SavepointStore& store, std::uint64_t number, bool is_full, int version = 0) {
    store.begin(number, is_full);
    std::uint32_t kind = 0;
    for (const std::string& record : records_of(number, version)) {
      Bytes payload;
      append_bytes(payload, std::span(record));
      store.add(kind++, std::move(payload));
    }
    store.end();
  }

  static std::string read_text(SavepointStore& store, std::uint64_t number) {
    std::string text;
    const Status read = store.read(number, [&](std::uint32_t kind, ByteSpan payload) -> Status {
      text += line(kind, payload);
      return {};
    });
    return read ? text : "error: " + read.error().message;
  }

  // Every whole savepoint as it reads.
  static std::map<std::uint64_t, std::string> contents(SavepointStore& store) {
    std::map<std::uint64_t, std::string> texts;
    for (const std::uint64_t number : store.whole()) texts[number] = read_text(store, number);
    return texts;
  }

  static std::string path_of(const std::string& name) { return std::string(kFolder) + "/" + name; }
  static std::string content(test::MemoryFiles& files, const std::string& name) {
    const auto text = files.read_file(path_of(name), 1U << 20U);
    EXPECT_TRUE(text) << text.error().message;
    return text ? *text : "";
  }

 private:
  static std::string line(std::uint32_t kind, ByteSpan payload) {
    return fmt::format("{} {} {}\n", kind, payload.size(), as_text(payload));
  }
};

}  // namespace paddle::snapshot
