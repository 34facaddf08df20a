// Memory of a fake card, or of its host. A block ends at a page that nobody may touch. Nor may
// anybody touch a block that was released, whose address is never given again. New memory is full
// of NaNs.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace paddle::test {

// Ends the test: the program has broken a rule of the device's.
[[noreturn]] void violation(const std::string& sentence);

constexpr int kPoison = 0xff;  // of this byte every float, double and bfloat16 is a NaN
// Alignment of a block's begin. A real card gives 256, on which no code may rely.
constexpr std::size_t kBlockAlignment = 16;

class FakeMemory {
 public:
  enum class Access { kAlways, kWhileOpen };
  // The name is for sentences: "the card".
  FakeMemory(std::string name, Access access) : name_(std::move(name)), access_(access) {}
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  std::byte* allocate(std::size_t bytes);
  void release(std::byte* memory);
  // The begin of the block that holds the address, or ends at it; null: none does.
  std::byte* block_of(const void* address) const;
  bool was_released(const void* address) const;
  // Ends the test unless all of it lies in one block. `user` is for the sentence: "an upload".
  void expect_within(const void* from, std::size_t bytes, const std::string& user) const;

  // Until close(), these blocks, or all, can be read and written though they are of kWhileOpen.
  void open(const std::vector<const std::byte*>& begins);
  void open_all();
  void close();

  std::size_t used() const { return used_; }
  std::size_t blocks() const { return blocks_.size(); }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::byte* pages = nullptr;  // with a page before and behind that nobody may touch
    std::size_t page_bytes = 0;
  };
  using Blocks = std::map<const std::byte*, Block>;

  static Blocks::const_iterator find(const Blocks& blocks, const void* address);
  void protect(const Block& block, bool is_open) const;

  std::string name_;
  Access access_;
  Blocks blocks_;    // by their begins
  Blocks released_;  // likewise
  std::set<const std::byte*> open_;
  std::size_t used_ = 0;
};

}  // namespace paddle::test
