export interface Page<T> {
  items: T[];
  /** "" on the last page. */
  nextPageToken: string;
}

/** A list that is fetched page by page while it is walked through with `for await`. */
export class Pages<T> implements AsyncIterable<T> {
  constructor(private readonly fetchPage: (pageToken: string) => Promise<Page<T>>) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    let pageToken = "";
    do {
      const page = await this.fetchPage(pageToken);
      yield* page.items;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** One page. */
  page(pageToken = ""): Promise<Page<T>> {
    return this.fetchPage(pageToken);
  }

  /** All items; for lists that are known to be short. */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }
}
