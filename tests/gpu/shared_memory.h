// Memory that the host and the card see at the same address: all that `new` gives from then on, so
// that tests which are written for the host give a card their vectors.
#pragma once

namespace paddle::test {

void share_memory();

}  // namespace paddle::test
