// A card that is at work for long.
#include <gtest/gtest.h>

#include "tests/gpu/card_memory.h"

namespace paddle::device {
namespace {

using test::card;

TEST(Card, AWaitPassesItsDeadline) {
  const Stream stream = expect(Stream::open(card()));
  const Event event = expect(Event::make(card()));
  const auto memory = memory_of<float, Place::kCard>(card(), 1 << 26U);
  for (int i = 0; i < 2000; ++i) card().launch(stream.handle(), fill(memory, 1));
  card().record(stream.handle(), event.handle());
  const Status status = card().wait(event.handle(), SteadyClock().now());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUnreachable);
  expect(card().wait(event.handle(), in_seconds(60)));
}

}  // namespace
}  // namespace paddle::device
