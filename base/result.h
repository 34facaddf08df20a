// Result<T>: a value or an error that a peer, file, user or kernel can cause. Bugs are
// PADDLE_CHECKs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace paddle {

// The values are the exit codes of all our programs (documented in README.md).
enum class Errc : int {
  kFailed = 1,        // the user's job or command failed
  kUsage = 2,         // wrong flag, wrong configuration file
  kVersion = 3,       // version or architecture mismatch
  kUnreachable = 4,   // peer cannot be reached or a deadline passed
  kAuth = 5,          // authentication or host key refused
  kData = 6,          // a data file, snapshot or frame is malformed
  kResource = 7,      // port taken, disk full, out of memory, a limit reached
  kResumable = 75,    // stopped cleanly and can be resumed
  kInterrupted = 130  // Ctrl-C
};

// The code with this number, which a peer or a node sent or a process exited with; kFailed for 0
// and any other number.
constexpr Errc errc_of(std::uint32_t number) {
  for (const Errc code : {Errc::kUsage, Errc::kVersion, Errc::kUnreachable, Errc::kAuth,
                          Errc::kData, Errc::kResource, Errc::kResumable, Errc::kInterrupted}) {
    if (static_cast<std::uint32_t>(code) == number) return code;
  }
  return Errc::kFailed;
}

// `message` says what went wrong, outermost context first; `hint` is the user's next step.
struct Error {
  Errc code = Errc::kFailed;
  std::string message;
  std::string hint = {};

  // Adds context on the way up: "starting pserver on node-2: " + message.
  Error&& with(std::string_view context) && {
    message.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& value() {
    PADDLE_CHECK(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  const T& value() const {
    PADDLE_CHECK(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  const Error& error() const& {
    PADDLE_CHECK(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    PADDLE_CHECK(state_.index() == 1);
    return std::move(*std::get_if<1>(&state_));
  }
  // Error::with, if this is an error.
  Result with(std::string_view context) && {
    if (state_.index() == 1) return std::move(*this).error().with(context);
    return std::move(*this);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  explicit operator bool() const { return !error_; }
  const Error& error() const& {
    PADDLE_CHECK(error_.has_value());
    return *error_;
  }
  Error&& error() && {
    PADDLE_CHECK(error_.has_value());
    return std::move(*error_);
  }
  Result with(std::string_view context) && {
    if (error_) return std::move(*error_).with(context);
    return {};
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace paddle

#define PADDLE_CONCAT_INNER(a, b) a##b
#define PADDLE_CONCAT(a, b) PADDLE_CONCAT_INNER(a, b)

// PADDLE_TRY(auto x, f()) binds x or returns the error; PADDLE_TRY_STATUS(f()) only returns the
// error.
#define PADDLE_TRY_IMPL(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result) return std::move(result).error();         \
  declaration = *std::move(result)
#define PADDLE_TRY(declaration, expression) \
  PADDLE_TRY_IMPL(PADDLE_CONCAT(try_result_, __COUNTER__), declaration, expression)
#define PADDLE_TRY_STATUS(expression)                                                      \
  do {                                                                                     \
    if (auto try_status = (expression); !try_status) return std::move(try_status).error(); \
  } while (false)
