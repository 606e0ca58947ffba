import type { ReactNode } from "react";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ReactNode;
  numeric?: boolean;
  /** Hidden on narrow screens. */
  minor?: boolean;
}

interface TableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  selected?: string | undefined;
  onSelect?: (row: Row) => void;
}

/** A table of a page of rows; long lists are virtual and have a component of their own. */
export function Table<Row>({ label, rows, columns, rowKey, selected, onSelect }: TableProps<Row>) {
  const className = (column: Column<Row>) =>
    [column.numeric && "numeric", column.minor && "minor"].filter(Boolean).join(" ");
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" className={className(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const key = rowKey(row);
            return (
              <tr key={key} aria-current={selected === key ? "true" : undefined}>
                {columns.map((column, place) => (
                  <td key={column.title} className={className(column)}>
                    {place === 0 && onSelect ? (
                      <button type="button" className="row-link" onClick={() => onSelect(row)}>
                        {column.cell(row)}
                      </button>
                    ) : (
                      column.cell(row)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
