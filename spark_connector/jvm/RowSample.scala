package pando.spark

import java.math.{BigDecimal, BigInteger}
import java.util.SplittableRandom

/**
 * A sample of a table's rows: those whose draw lies from `low` up to `high`, of the range from 0 to 1.
 *
 * The draw of a row depends on its part, its place there and the seed. So every replica and every attempt of a task draws
 * the same rows of one state of the table.
 */
final case class RowSample(low: Double, high: Double, seed: Long) {

  /** How much of the rows it has. */
  def share: Double = math.max(0, math.min(high, 1) - math.max(low, 0))

  /** Returns the condition in SQL. Shards, which have parts of the same names, draw apart. */
  def condition(shard: Int): String = {
    val number = java.lang.Long.toUnsignedString(new SplittableRandom(seed + shard * RowSample.stride).nextLong())
    val draw = s"intHash64(bitXor(bitXor(_part_offset, cityHash64(_part)), toUInt64($number)))"
    SqlText.and(Seq(
      if (low > 0) s"$draw >= ${RowSample.scale(low)}" else "",
      if (high < 1) s"$draw < ${RowSample.scale(high)}" else ""))
  }

  override def toString: String = s"$low to $high (seed $seed)"
}

object RowSample {
  /** What tells rows apart. */
  val columns: Set[String] = Set("_part", "_part_offset")

  private val stride = 0x5851f42d4c957f2dL
  private val range = new BigDecimal(BigInteger.ONE.shiftLeft(64))

  /** Returns the number that is so far in the range of hashes. */
  private def scale(share: Double): String = new BigDecimal(math.max(share, 0)).multiply(range).toBigInteger.toString
}
