// The exchange of a program with the engine beside it: frames of JSON through a stream socket, and
// arrays in memory that both have mapped. proto/PROTOCOL.md, "Beside a program", is the contract.
//
//     bytes 0-3    u32   magic, the bytes "PDLC"
//     bytes 4-5    u16   version, 1
//     bytes 6-7    u16   0
//     bytes 8-11   u32   number of the request, from 1; an answer has the same; an event has 0
//     bytes 12-15  u32   bytes of the JSON object that follows
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"

namespace paddle::sidecar {

constexpr std::uint32_t kMagic = 0x434c4450;
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kRequestBytesMax = 64U << 10U;
constexpr std::size_t kAnswerBytesMax = 16U << 20U;
constexpr std::uint64_t kMemoryBytesMax = 16ULL << 30U;
constexpr std::size_t kAlignment = 64;  // of every array in the memory

struct Request {
  std::uint32_t number = 0;
  std::string text;  // a JSON object, not parsed yet
};

// The sidecar's end of the socket. One thread reads; any thread may write.
class Channel {
 public:
  // kUsage: the descriptor is no stream socket.
  static Result<Channel> open(UniqueFd socket);

  // The next request; nothing at the end of the stream. kData: a broken header, a number that does
  // not follow the last one, or an end within a request.
  Result<std::optional<Request>> read();
  // Writes a frame. If the program has closed its end, the frame is lost: read() reports the end.
  void write(std::uint32_t request, const JsonObject& object);
  // Ends both directions: waiting calls return. Any thread may call it.
  void close() const;

 private:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  std::uint32_t last_ = 0;
  std::unique_ptr<std::mutex> writing_ = std::make_unique<std::mutex>();
};

JsonObject answer_of(const Error& error);

// A range of the memory, in bytes from its start and elements.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
};

// The memory that the program has made for both. Its size cannot change.
class SharedMemory {
 public:
  // kUsage: the descriptor is not a regular file of this user, sealed against shrinking and
  // growing, of 64 bytes to kMemoryBytesMax. kResource: it cannot be mapped.
  static Result<SharedMemory> open(UniqueFd file);
  SharedMemory(SharedMemory&& other) noexcept : all_(std::exchange(other.all_, {})) {}
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::uint64_t bytes() const { return all_.size(); }
  // The elements of a range. kUsage: it is not in the memory, or its offset is no multiple of
  // kAlignment; `what` names it in the message: "ids of table 'user'".
  template <class T>
  Result<std::span<T>> at(const Range& range, const std::string& what) {
    PADDLE_TRY(const auto bytes, bytes_of_range(range, sizeof(T), what));
    return std::span(reinterpret_cast<T*>(bytes.data()), range.count);
  }

 private:
  explicit SharedMemory(std::span<std::byte> all) : all_(all) {}
  Result<std::span<std::byte>> bytes_of_range(const Range& range, std::size_t element,
                                              const std::string& what);

  std::span<std::byte> all_;
};

// The next multiple of kAlignment.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace paddle::sidecar
