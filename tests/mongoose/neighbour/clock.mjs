// Loaded before everything else: a clock that is wrong by so many milliseconds.

const ahead = Number(process.env.NEIGHBOUR_CLOCK_AHEAD_MS ?? 0);
const RightDate = Date;

if (ahead !== 0) {
  globalThis.Date = class Date extends RightDate {
    constructor(...given) {
      if (given.length > 0) super(...given);
      else super(RightDate.now() + ahead);
    }

    static now() {
      return RightDate.now() + ahead;
    }
  };
}
