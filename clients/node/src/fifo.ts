// A queue whose members may leave it from any place. Each step costs the same, however long it is.

/** A member of a queue. */
export interface Member {
  /** Whether it has left the queue before its turn. */
  hasLeft: boolean;
}

// With fewer members, those that have left are not worth a sweep.
const SWEEP_MIN = 64;

export class Fifo<T extends Member> {
  private members: T[] = [];
  private first = 0;
  private sweepAt = SWEEP_MIN;

  push(member: T): void {
    if (this.members.length >= this.sweepAt) {
      this.members = this.members.slice(this.first).filter((each) => !each.hasLeft);
      this.first = 0;
      this.sweepAt = Math.max(SWEEP_MIN, 2 * this.members.length);
    }
    this.members.push(member);
  }

  /** The first member, which stays. */
  peek(): T | undefined {
    while (this.members[this.first]?.hasLeft) this.first += 1;
    return this.members[this.first];
  }

  /** Takes the first member out. */
  shift(): T | undefined {
    const member = this.peek();
    if (member) this.first += 1;
    if (this.first === this.members.length) {
      this.members = [];
      this.first = 0;
      this.sweepAt = SWEEP_MIN;
    }
    return member;
  }
}
