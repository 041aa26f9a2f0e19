// A Mongoose lock with a transaction: the invoice is sent by one process, and one whose lease is over cannot commit.

/** Sends an invoice once. Returns false where it has been sent already. */
export async function sendInvoice(leases, Invoice, number, send) {
  return leases.withLease(`invoice:${number}`, async (lease) => {
    if (await Invoice.exists({ _id: number, state: 'sent' })) return false;
    await send(number, lease.token, lease.signal);
    await lease.transaction(async (session) => {
      await Invoice.updateOne({ _id: number }, { state: 'sent' }, { session });
    });
    return true;
  });
}
